"""The training benchmark: our training beside a baseline, a hand-tuned loop and the CPU's matrix multiplication.

training  rounds, medians and targets; individuals trained by the real worker
rounds    the measurements of one round, and the hand-tuned loop
parallel  a training that two processes share, against one process
finetune  plain fine-tuning of a pretrained network
baseline  one training in a new process, as in a tutorial; the networks, as DNA and in plain torch
"""
