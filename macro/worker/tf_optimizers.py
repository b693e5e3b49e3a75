"""Optimizers of TensorFlow where their state begins as zero, else the kernels of the others.

In the style of Python 3.6.
"""


def _momentum(nesterov):
    def make(tf, plan, variables, scope):
        return tf.compat.v1.train.MomentumOptimizer(plan["rate"], plan["momentum"], use_nesterov=nesterov)

    return make


def _sgd(tf, plan, variables, scope):
    if plan["momentum"]:
        return _momentum(nesterov=False)(tf, plan, variables, scope)
    return tf.compat.v1.train.GradientDescentOptimizer(plan["rate"])


def _adam(tf, plan, variables, scope):
    return tf.compat.v1.train.AdamOptimizer(plan["rate"], plan["momentum"], plan["rho"], plan["epsilon"])


class Adagrad(object):
    """Adagrad by the kernel that adds epsilon to the root."""

    def __init__(self, tf, plan, variables, scope):
        self.tf, self.plan, self.scope = tf, plan, scope
        self.v = [tf.Variable(tf.zeros_like(w), trainable=False) for w in variables]

    def apply_gradients(self, pairs):
        for i, (g, w) in enumerate(pairs):
            with self.scope(w.name.rpartition(".")[0] + ".update"):
                self.move(i, w.handle, g)

    def move(self, i, w, g):
        rate, epsilon = self.plan["rate"], self.plan["epsilon"]
        self.tf.raw_ops.ResourceApplyAdagradV2(var=w, accum=self.v[i].handle, lr=rate, epsilon=epsilon, grad=g)


class Rmsprop(Adagrad):
    """RMSprop by a kernel that adds epsilon below the root, and keeps a velocity too."""

    def __init__(self, tf, plan, variables, scope):
        Adagrad.__init__(self, tf, plan, variables, scope)
        self.kept = [tf.Variable(tf.zeros_like(w), trainable=False) for w in variables]

    def move(self, i, w, g):
        plan, state = self.plan, {"ms": self.v[i].handle, "mom": self.kept[i].handle}
        how = {"lr": plan["rate"], "rho": plan["rho"], "momentum": 0.0, "epsilon": plan["epsilon"] ** 2}
        self.tf.raw_ops.ResourceApplyRMSProp(var=w, grad=g, **dict(state, **how))


OPTIMIZERS = {"sgd": _sgd, "nesterov": _momentum(nesterov=True), "adagrad": Adagrad, "rmsprop": Rmsprop, "adam": _adam}
