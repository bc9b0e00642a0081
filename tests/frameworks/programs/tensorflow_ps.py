"""ParameterServerStrategy from TF_CONFIG: the chief trains on the workers, the variable is on the server.

With a folder as argument, the chief leaves a checkpoint there and an evaluator waits for it.
"""

import json
import os

import tensorflow as tf
import tensorflow_checkpoint

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    os.write(1, f"serving as {resolver.task_type} {resolver.task_id}\n".encode())
    server.join()  # never ends by itself
if resolver.task_type == "evaluator":
    tensorflow_checkpoint.evaluate()
    raise SystemExit

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weight = tf.Variable(0.0)
assert "/job:ps/" in weight.device, weight.device


@tf.function
def step(x):
    """One step, on whichever worker takes it."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((weight * x - 3 * x) ** 2)
    weight.assign_sub(0.1 * tape.gradient(loss, weight))
    return loss


points = tf.linspace(-1.0, 1.0, 64)
losses = []
for _ in range(8):
    losses += [coordinator.schedule(step, (points,)) for _ in range(4)]
    coordinator.join()
losses = [float(loss.fetch()) for loss in losses]
assert losses[-1] < losses[0] / 4, losses
workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
os.write(1, f"trained rank=0 world={workers} weight={float(weight.numpy()):.6f}\n".encode())
tensorflow_checkpoint.save(float(weight.numpy()))
