"""`%%rlm --here`: the model drives the notebook's own kernel, where the user's variables live.

The run itself goes on in another process, the driver: it holds the keys, asks the models and keeps the record.
The `%%rlm --here` cell executes what the driver sends, on the main thread, until the run is over. So nothing ever
waits in the queue behind that cell, and the cells of the model are ordinary cells below it.
"""
