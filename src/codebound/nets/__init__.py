"""Networks as this library sees them: layer views, steps, rebuilt copies, architectures, weight files."""

from codebound.nets.augment import augmented_matrix
from codebound.nets.coverage import Coverage, CoverageRow
from codebound.nets.dictionary import DictionaryFeatures, dictionary_channels
from codebound.nets.fold import Folding, fold_batch_norms
from codebound.nets.kinds import Kind, kind_of
from codebound.nets.layers import AbstractLayerView, LinearOperator, layer_view, view_of
from codebound.nets.loading import Checkpoint, load_model, load_weights, read_checkpoint
from codebound.nets.rebuild import with_weights
from codebound.nets.stages import Stage, Stages, stages
from codebound.nets.views import views_of
from codebound.nets.walk import LayerActivation, Network, activations, wrap
from codebound.nets.zoo import ZOO, Architecture

__all__ = [
    "ZOO",
    "AbstractLayerView",
    "Architecture",
    "Checkpoint",
    "Coverage",
    "CoverageRow",
    "DictionaryFeatures",
    "Folding",
    "Kind",
    "LayerActivation",
    "LinearOperator",
    "Network",
    "Stage",
    "Stages",
    "activations",
    "augmented_matrix",
    "dictionary_channels",
    "fold_batch_norms",
    "kind_of",
    "layer_view",
    "load_model",
    "load_weights",
    "read_checkpoint",
    "stages",
    "view_of",
    "views_of",
    "with_weights",
    "wrap",
]
