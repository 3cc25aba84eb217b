"""Kernels on a Jupyter server: how it is asked for one, the connection to it, and the guest that is sent there."""
