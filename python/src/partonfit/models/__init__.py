"""Models of the state: networks with preprocessing and sum rules, and the known toy PDF."""

from partonfit.models._known import resolve_pdf as resolve_pdf
from partonfit.models._pdf_model import PDFModel as PDFModel
from partonfit.models._pdf_model import pdf_model as pdf_model
from partonfit.models._sum_rules import quadrature as quadrature
from partonfit.models._toy import toy_pdf as toy_pdf
