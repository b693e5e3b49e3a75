"""Knock-outs for a block of steps: one parameter frozen or one module skipped, to save its row's time.

The change is undone behind the block; only a few steps of training went otherwise.
"""


class Refused(Exception):
    """Refusal to leave something out; the text is the reason."""


class KnockOut:
    """A module or parameter to leave out; `path`: its name as in rows; `known`: {id: (path, module)}."""

    def __init__(self, torch, known, path):
        """Find what `path` names. Raises Refused."""
        self.torch, self.path, self.undone = torch, path, None
        by_path = dict(known.values())
        holder, _, name = path.rpartition(".")
        self.module, self.parameter = by_path.get(path), None
        if self.module is None and holder in by_path:
            self.parameter = dict(by_path[holder].named_parameters(recurse=False)).get(name)
        if self.module is None and self.parameter is None:
            near = ", ".join(sorted(by_path)[:6])
            raise Refused(f"no module and no parameter is called so; modules are {near} …")

    @property
    def what(self):
        return "module" if self.parameter is None else "parameter"

    def count(self):
        """Return how many numbers the optimizer updates no more."""
        parameters = [self.parameter] if self.parameter is not None else list(self.module.parameters())
        return sum(p.numel() for p in parameters if p.requires_grad)

    def shape(self):
        return [] if self.parameter is None else list(self.parameter.shape)

    def try_out(self, done):
        """Compare a module's output with its input at its next call, and pass None or the reason to `done`."""
        handle = []

        def hook(module, args, output):
            handle.pop().remove()
            given = args[0] if args else None
            alike = isinstance(output, self.torch.Tensor) and isinstance(given, self.torch.Tensor)
            done(None if alike and output.shape == given.shape else "its output is not like its input")

        handle.append(self.module.register_forward_hook(hook))

    def apply(self):
        if self.parameter is not None:
            self.parameter.requires_grad_(False)
            self.parameter.grad = None
        else:
            self.undone = self.module.__dict__.get("forward")
            self.module.forward = lambda given, *args, **kwargs: given

    def undo(self):
        if self.parameter is not None:
            self.parameter.requires_grad_(True)
        elif self.undone is None:
            self.module.__dict__.pop("forward", None)
        else:
            self.module.forward = self.undone
