"""SafeClassifier: a scikit-learn classifier that forgets samples exactly; everything is kept in memory."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from shardgraph.errors import ConfigError, InputError, WorkspaceError, check_list, some
from shardgraph.forget.learned import Learned
from shardgraph.graph import Bilevel, Topology
from shardgraph.learn.recipe import Recipe, recipe
from shardgraph.storage.samples import Samples, check, from_arrays

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, column_or_1d, validate_data
except ImportError as problem:
    raise ConfigError("SafeClassifier needs scikit-learn 1.6 or later: pip install 'shardgraph[sklearn]'") from problem

NUMBERS = "iuf"  # kinds of dtypes that a label may be cast between


class NotFitted(WorkspaceError, NotFittedError):  # type: ignore[misc]
    """The classifier was not fitted; scikit-learn's error of this kind, and ours."""


class SafeClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A shard-graph classifier on features [n, d] or token embeddings [n, t, d].

    After `fit`, `forget(ids)` gives exactly the model that `fit` without these samples gives: `digest_` is equal. This
    holds for the same class list and an assignment by hash. Declare `classes` if all samples of a class may be
    forgotten, because with `fine` > 1 the shard of a sample depends on the class list. A balanced assignment depends on
    all samples of `fit`.

    The samples are part of the fitted estimator, and of its pickle: retraining needs them. `fit` writes no file.

    coarse, fine    the topology, unless `topology` is given: `coarse` shards, each cut into `fine` class cliques
    topology        any topology without private edges
    recipe          a `Recipe`, or the name of one
    classes         all labels that may occur, of the type of `y`; None: those of the samples
    seed            the root of all pseudorandom numbers
    dtype           of the tokens that are kept, "float16" or "float32"

    A fitted classifier has

    classes_             the labels, sorted, of the dtype of `y`: as declared, or those of the samples that are held
    n_features_in_       d
    feature_names_in_    the column names of the DataFrame that `fit` was given
    n_samples_seen_      the rows given to `fit` and `partial_fit`; the next row without an id has this number
    digest_              the digest of the model
    learned_             the samples by shard, the adapters, the prototypes and the model
    """

    def __init__(
        self,
        coarse: int = 1,
        fine: int = 1,
        *,
        topology: Topology | None = None,
        recipe: Recipe | str = "default",
        classes: Sequence[Any] | None = None,
        seed: int = 0,
        dtype: str = "float16",
    ) -> None:
        self.coarse = coarse
        self.fine = fine
        self.topology = topology
        self.recipe = recipe
        self.classes = classes
        self.seed = seed
        self.dtype = dtype

    learned_: Learned
    n_samples_seen_: int

    # Learning

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        ids: Iterable[Any] | None = None,
        sources: Iterable[Any] | None = None,
    ) -> "SafeClassifier":
        """Train on these samples alone; the default ids are row numbers."""
        tokens, labels = self._checked(X, y, reset=True)
        declared = None if self.classes is None else _of_type(self.classes, labels.dtype)
        self._learn(tokens, labels, declared, ids, sources)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | None = None,
        *,
        ids: Iterable[Any] | None = None,
        sources: Iterable[Any] | None = None,
    ) -> "SafeClassifier":
        """Train on these samples as well; the result is that of one `fit` on all samples with their ids.

        The first call needs `classes`, all labels that may occur, unless they are declared as a parameter. The default
        ids go on from the number of rows seen before.
        """
        if not hasattr(self, "learned_"):
            tokens, labels = self._checked(X, y, reset=True)
            given = self.classes if classes is None else classes
            if given is None:
                raise InputError("classes must be passed on the first call to partial_fit, or as a parameter: got None")
            self._learn(tokens, labels, _of_type(given, labels.dtype), ids, sources)
            return self
        tokens, labels = self._checked(X, y, reset=False)
        names, seen = self.learned_.classes, self.n_samples_seen_
        if classes is not None and _names(_of_type(classes, self._label_dtype)) != names:
            raise InputError(f"classes must be those of the first call, {some(names)}: got {classes!r}")
        labels = _of_type(labels, self._label_dtype, "y", unique=False)
        numbers = range(seen, seen + len(labels)) if ids is None else ids
        learned = self.learned_.plus(self._samples(tokens, labels, names, numbers, sources, self._token_dtype))
        self._hold(learned, np.concatenate([self.classes_, labels]))
        self.n_samples_seen_ = seen + len(labels)
        return self

    def forget(self, ids: Iterable[Any]) -> "SafeClassifier":
        """Forget samples by id; only the groups that could have seen them are retrained."""
        self._hold(self._fitted().without(ids), self.classes_)
        return self

    def plan_forget(self, ids: Iterable[Any]) -> dict[str, Any]:
        """The number of groups that forgetting would retrain, and the samples that this reads again."""
        return self._fitted().plan(ids)

    @property
    def digest_(self) -> str:
        """The digest of the model: equal digests mean equal bytes."""
        return self._fitted().model.digest

    # Prediction

    def predict(self, X: Any) -> np.ndarray:
        """The predicted class of every row, of the dtype of `y`."""
        best = self._scores(X).argmax(axis=1)
        found: np.ndarray = self.classes_[best]
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """A softmax over the scores [n, K], in the order of `classes_`; 0 for a class without samples."""
        scores = self._scores(X).astype(np.float64)
        exp = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: np.ndarray = exp / exp.sum(axis=1, keepdims=True)
        return shares

    def transform(self, X: Any) -> np.ndarray:
        """`predict_proba` as features, with names: a DataFrame after `set_output(transform="pandas")`."""
        return self.predict_proba(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns of `transform`: safeclassifier_CLASS."""
        self._fitted()
        return np.array([f"{type(self).__name__.lower()}_{label}" for label in self.classes_], dtype=object)

    # What scikit-learn asks

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learned_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    # Samples and state

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """The arrays, as scikit-learn checks them."""
        if y is None:
            raise InputError(f"requires y to be passed, but the target y is None: {type(self).__name__} needs labels")
        with _our_errors():
            tokens = self._tokens(X, reset=reset)
            labels = column_or_1d(y, warn=True)
            check_classification_targets(labels)
        return tokens, _native(labels, y)

    def _tokens(self, X: Any, *, reset: bool) -> np.ndarray:
        """X as an array [n, d] or [n, t, d]."""
        shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
        if len(shape) > 3:
            raise InputError(f"X must be [n, d] or [n, t, d], got {shape}")
        if len(shape) < 3:
            return np.asarray(validate_data(self, X, reset=reset))
        tokens = np.asarray(check_array(X, allow_nd=True))
        if reset:
            self.n_features_in_ = tokens.shape[2]
            self.__dict__.pop("feature_names_in_", None)
        elif tokens.shape[2] != self.n_features_in_:
            expected = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
            raise InputError(f"X has {tokens.shape[2]} features, but {expected}")
        return tokens

    def _learn(
        self,
        tokens: np.ndarray,
        labels: np.ndarray,
        declared: np.ndarray | None,
        ids: Iterable[Any] | None,
        sources: Iterable[Any] | None,
    ) -> None:
        """Begin anew with these samples; the class list is the declared one, or that of the labels."""
        settings = recipe(self.recipe) if isinstance(self.recipe, str) else self.recipe
        topology = self.topology or Bilevel(self.coarse, self.fine)
        if topology.graph(()).private:
            raise ConfigError("private edges need a Workspace: this classifier keeps no record of what it released")
        names = _names(labels if declared is None else declared)
        numbers = range(len(labels)) if ids is None else ids
        samples = self._samples(tokens, labels, names, numbers, sources, self.dtype)
        learned = Learned.of(samples, topology, settings, self.seed, names)
        self._declared, self._token_dtype, self.n_samples_seen_ = declared, self.dtype, len(labels)
        self._label_dtype = np.dtype("U") if labels.dtype.kind == "U" else labels.dtype  # the length may be forgotten
        self._hold(learned, labels)

    def _samples(
        self,
        tokens: np.ndarray,
        labels: np.ndarray,
        names: tuple[str, ...],
        ids: Iterable[Any],
        sources: Iterable[Any] | None,
        dtype: str,
    ) -> Samples:
        if odd := sorted({str(label) for label in labels} - set(names)):
            raise InputError(f"y must hold the declared classes {some(names)} only, got {some(odd)}")
        return check(from_arrays(tokens, labels, ids, () if sources is None else sources, dtype))

    def _hold(self, learned: Learned, labels: np.ndarray) -> None:
        """Replace what was learned; `labels` hold all classes that it may know."""
        self.learned_ = learned
        if self._declared is not None:
            self.classes_ = self._declared
            return
        held = set(learned.model.classes)
        self.classes_ = _array([label for label in np.unique(labels) if str(label) in held], self._label_dtype)

    def _scores(self, X: Any) -> np.ndarray:
        """The scores [n, K] in the order of `classes_`; -inf for a class without samples."""
        learned = self._fitted()
        with _our_errors():
            tokens = self._tokens(X, reset=False)
        found = learned.model.scores(check(from_arrays(tokens, ["?"] * len(tokens), dtype=self._token_dtype)))
        columns = {name: column for column, name in enumerate(learned.model.classes)}
        scores = np.full((len(tokens), len(self.classes_)), -np.inf, np.float32)
        for k, name in enumerate(map(str, self.classes_)):
            if name in columns:
                scores[:, k] = found[:, columns[name]]
        return scores

    def _fitted(self) -> Learned:
        if not hasattr(self, "learned_"):
            raise NotFitted(f"This {type(self).__name__} instance is not fitted yet: fit must be called first")
        return self.learned_


def _of_type(values: Any, dtype: np.dtype, what: str = "classes", *, unique: bool = True) -> np.ndarray:
    """The labels as an array of this dtype, sorted and unique; an error if they are of another type."""
    check_list(values, what)
    found = np.asarray(list(values)) if not isinstance(values, np.ndarray) else values
    both = {found.dtype.kind, dtype.kind}
    same = len(both) == 1 or both <= set(NUMBERS) or both <= {"U", "O"}
    if not same or (dtype.kind in NUMBERS and (found.astype(dtype) != found).any()):
        raise InputError(f"{what} must be of the type of the labels of the first fit, {dtype.name}: got {values!r}")
    array = found if dtype.kind == "U" else found.astype(dtype)
    return np.unique(array) if unique else array


def _native(labels: np.ndarray, y: Any) -> np.ndarray:
    """The labels of a nullable pandas column as integers or booleans; scikit-learn makes them floats."""
    dtype = getattr(getattr(y, "dtype", None), "numpy_dtype", labels.dtype)
    return labels.astype(dtype) if dtype.kind in "biu" else labels


def _array(labels: list[Any], dtype: np.dtype) -> np.ndarray:
    """The labels as an array of this dtype; strings as wide as the longest of them."""
    return np.array(labels, dtype="U" if dtype.kind == "U" and labels else dtype)


def _names(classes: np.ndarray) -> tuple[str, ...]:
    """The class list of a placement: the labels as strings, sorted."""
    return tuple(sorted({str(label) for label in classes}))


@contextmanager
def _our_errors() -> Iterator[None]:
    """Raise the errors of scikit-learn's checks as InputError, which is a ValueError too, with their text."""
    try:
        yield
    except InputError:
        raise
    except ValueError as problem:
        raise InputError(str(problem)) from problem
