"""What a trained weight became, through a checkpoint: written by the chief, read by the evaluator."""

import os
import sys

import tensorflow as tf


def save(value):
    """Write the weight into the folder that the program was given, if it was given one."""
    if len(sys.argv) > 1:
        tf.train.Checkpoint(weight=tf.Variable(value)).save(os.path.join(sys.argv[1], "trained"))


def evaluate():
    """Wait for the weight, and say how good it is."""
    found = next(iter(tf.train.checkpoints_iterator(sys.argv[1], timeout=500)))
    weight = tf.Variable(0.0)
    tf.train.Checkpoint(weight=weight).restore(found).assert_consumed()
    points = tf.linspace(-1.0, 1.0, 64)
    loss = float(tf.reduce_mean((weight * points - 3 * points) ** 2))
    os.write(1, f"evaluated weight={float(weight.numpy()):.6f} loss={loss:.6f}\n".encode())
