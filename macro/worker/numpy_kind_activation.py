"""An activation by itself in NumPy: what it takes is what it is of. In the style of Python 3.6."""

from numpy_layers import Layer


class Activation(Layer):
    def forward(self, inputs):
        return inputs[0]

    def backward(self, dz):
        return [dz]


BUILDER = Activation
