"""Models: embeddings, heads and decoders around a `Recurrent`; and what they are compared with."""

from recurra.models.autoregression import Autoregression, LinearPast, find_season
from recurra.models.bag_of_tokens import BagOfTokens
from recurra.models.classify import Classifier
from recurra.models.conditioned import ConditionedLanguageModel
from recurra.models.counted import CountedLanguageModel
from recurra.models.decision_tree import DecisionTree, grow_tree
from recurra.models.events import EventModel
from recurra.models.feedforward import (
    Feedforward,
    basis_expansion,
    convolutional,
    for_numbers,
    linear_classifier,
    multilayer,
)
from recurra.models.forecast import Forecaster
from recurra.models.jordan import Jordan
from recurra.models.kernel_ridge import KernelRidge
from recurra.models.language import LanguageModel
from recurra.models.lengths import LengthLanguageModel
from recurra.models.markov import Markov, best_markov
from recurra.models.markov_tables import MarkovTables
from recurra.models.readout import Readout
from recurra.models.reservoir import EchoState
from recurra.models.sampling import Choice, sample
from recurra.models.search import Continuation, Ending, beam_search
from recurra.models.tag import Tagger
from recurra.models.translate import Translator
from recurra.models.tree import TreeClassifier
from recurra.models.window import WindowLanguageModel

__all__ = [
    "Autoregression",
    "BagOfTokens",
    "Choice",
    "Classifier",
    "ConditionedLanguageModel",
    "Continuation",
    "CountedLanguageModel",
    "DecisionTree",
    "EchoState",
    "Ending",
    "EventModel",
    "Feedforward",
    "Forecaster",
    "Jordan",
    "KernelRidge",
    "LanguageModel",
    "LengthLanguageModel",
    "LinearPast",
    "Markov",
    "MarkovTables",
    "Readout",
    "Tagger",
    "Translator",
    "TreeClassifier",
    "WindowLanguageModel",
    "basis_expansion",
    "beam_search",
    "best_markov",
    "convolutional",
    "find_season",
    "for_numbers",
    "grow_tree",
    "linear_classifier",
    "multilayer",
    "sample",
]
