"""Help texts of ``codebound reproduce`` and ``python -m codebound_papers.reproduce``."""

ITEM = "an item such as S-Fig2"
FULL = "The paper's settings, or a run that takes minutes."
EPOCHS = "Train for at most so many epochs; printed as a deviation."
OUT = "Folder for the results; an interrupted run continues in it"
MODELS = "Folder with pretrained networks as safetensors."
DEADLINE = "Begin no part after so many seconds: 0 shows what is finished, and says what is not."
