"""What a kernel that runs a model's code is kept from: settings, bubblewrap, and what it may see."""
