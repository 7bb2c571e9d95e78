"""Tiny random checkpoints, written as the published ones are laid out and loaded by the real code."""

from __future__ import annotations

import json
from pathlib import Path

WORDS = """
    the a an of in on at to and or but not we you she he they it is was are be have had do did go see saw
    dog park tax law city river letter friend doctor music train summer winter birthday garden museum
""".split()
HIDDEN, LAYERS, HEADS = 64, 2, 4


def write_bge_m3(directory: Path, *, positions: int = 130, safetensors: bool = False) -> Path:
    """XLM-R with a Unigram tokenizer, sparse_linear.pt and colbert_linear.pt, as BGE-M3 is published.

    `positions - 2` tokens fit in a text.
    """
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaModel

    directory.mkdir(parents=True, exist_ok=True)
    size = _unigram(directory)
    torch.manual_seed(3)
    model = XLMRobertaModel(
        XLMRobertaConfig(
            vocab_size=size, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            intermediate_size=2 * HIDDEN, max_position_embeddings=positions, type_vocab_size=1,
            pad_token_id=1, bos_token_id=0, eos_token_id=2, layer_norm_eps=1e-5,
        ),
        add_pooling_layer=False,
    ).eval()  # fmt: skip
    with torch.no_grad():
        for weight in model.parameters():  # the initial weights are so small that attention is the mean
            weight.mul_(10.0) if weight.dim() == 2 else weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(directory)
    if not safetensors:
        (directory / "model.safetensors").unlink()
        torch.save(model.state_dict(), directory / "pytorch_model.bin")
    for name, width in (("sparse_linear", 1), ("colbert_linear", HIDDEN)):
        head = torch.nn.Linear(HIDDEN, width)
        torch.nn.init.normal_(head.weight)  # about half of all tokens get a weight above 0
        torch.save(head.state_dict(), directory / f"{name}.pt")
    return directory


def write_sentence_bert(directory: Path, *, pooling: str = "mean", max_tokens: int = 24) -> Path:
    """BERT with a WordPiece tokenizer and the files of sentence-transformers."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    directory.mkdir(parents=True, exist_ok=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(at) for at in range(97, 123)]
    names = dict.fromkeys(
        [*special, *WORDS, *letters, *(f"##{one}" for one in letters), ".", "!", "?", "1"]
    )
    vocabulary = {name: at for at, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(special)
    # published files ask for both, and the packed forward must not follow
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8, pad_id=0, pad_token="[PAD]")
    tokenizer.save(str(directory / "tokenizer.json"))
    kept = dict(zip(("pad", "unk", "cls", "sep", "mask"), special, strict=True))
    names = {f"{name}_token": token for name, token in kept.items()}
    _write(directory / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", **names})
    torch.manual_seed(4)
    model = BertModel(
        BertConfig(
            vocab_size=len(vocabulary), hidden_size=HIDDEN, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, intermediate_size=2 * HIDDEN, max_position_embeddings=64,
        )
    ).eval()  # fmt: skip
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(10.0) if weight.dim() == 2 else weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(directory)
    kinds = ("Transformer", "Pooling", "Normalize")
    paths = ("", "1_Pooling", "2_Normalize")
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    _write(directory / "modules.json", modules)
    _write(directory / "sentence_bert_config.json", {"max_seq_length": max_tokens, "do_lower_case": False})
    modes = {f"pooling_mode_{name}": name.startswith(pooling) for name in ("cls_token", "mean_tokens")}
    _write(directory / "1_Pooling" / "config.json", {"word_embedding_dimension": HIDDEN, **modes})
    return directory


def _unigram(directory: Path) -> int:
    """XLM-R's special tokens, then words and letters; returns the size of the vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = [chr(at) for at in range(97, 123)] + [".", "!", "?", "▁"]
    pieces = [(token, 0.0) for token in special]
    pieces += [(f"▁{word}", -5.0 - 0.01 * at) for at, word in enumerate(WORDS) if len(word) > 1]
    pieces += [(letter, -9.0) for letter in letters]
    pieces.append(("<mask>", 0.0))
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens([*special, "<mask>"])
    tokenizer.save(str(directory / "tokenizer.json"))
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
    tokens = {f"{name}_token": token for name, token in names.items()}
    # the generic class takes tokenizer.json as it stands
    _write(
        directory / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192, **tokens},
    )
    return len(pieces)


def _write(path: Path, values: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")
