"""MultiWorkerMirroredStrategy from TF_CONFIG, with a loop of its own; every worker says what became of it.

With a folder as argument, the chief leaves a checkpoint there and an evaluator waits for it.
"""

import json
import os

import tensorflow as tf
import tensorflow_checkpoint

config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
if task["type"] == "evaluator":
    tensorflow_checkpoint.evaluate()
    raise SystemExit

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = task["index"] + (task["type"] == "worker" and "chief" in config["cluster"])  # among those that train
with strategy.scope():
    weight = tf.Variable(0.0)


@tf.function
def step(given):
    """One step on every worker; the mean of their losses."""

    def one(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((weight * x - 3 * x) ** 2)
        gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, weight))
        weight.assign_sub(0.3 * gradient)
        return loss

    return strategy.reduce("mean", strategy.run(one, (given,)), axis=None)


points = tf.linspace(-1.0, 1.0, 64)[rank::2]  # each worker has points of its own
losses = [float(step(points)) for _ in range(12)]
assert losses[-1] < losses[0] / 4, losses
world = strategy.num_replicas_in_sync
os.write(1, f"trained rank={rank} world={world} weight={float(weight.numpy()):.6f}\n".encode())
if rank == 0:
    tensorflow_checkpoint.save(float(weight.numpy()))
