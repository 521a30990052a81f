from __future__ import annotations

import pytest

from agent.models.builtin.embedding import BuiltinEmbedder


@pytest.mark.parametrize(
    "query",
    [
        "who signed the contract for the boiler",
        "heart attack treatment after surgery",
        "Where did Tobias put the keys?",
        "caffeine and blood pressure",
        "meeting with 王伟",
    ],
)
def test_english_queries_are_trusted(query: str, embedder: BuiltinEmbedder) -> None:
    assert embedder.trusts(query)


@pytest.mark.parametrize(
    "query",
    [
        "谁签了锅炉的合同",
        "中国人民大学",  # each of these characters is one whole piece
        "die Heizungsabrechnung Wohnungsverwaltung",  # one word of three is
        "кто подписал договор на котел",
        "ボイラーの契約",
        "보일러 계약",
        "ποιος υπέγραψε τη σύμβαση",
        "من وقع العقد",
        "Heizungserneuerung Kostenvoranschlag Vertragsunterzeichnung",
        "Wohnungsbesichtigung Schlüsselübergabe",
        "presupuesto calefacción edificio",
        "",
        "2026-03-04",
        "???",
    ],
)
def test_other_languages_and_no_language_are_not_trusted(query: str, embedder: BuiltinEmbedder) -> None:
    assert not embedder.trusts(query)
