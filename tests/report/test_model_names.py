"""Names that mean the same model."""

from __future__ import annotations

from bench.report.replies import same_model
from tests.rows import each_row


@each_row(
    ("asked", "reported"),
    [
        ("openai/gpt-4o", "gpt-4o"),
        ("openai/gpt-4o", "gpt-4o-2024-08-06"),
        ("openai/gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/gpt-4", "gpt-4-0613"),
        ("openrouter/openai/gpt-4o", "openai/gpt-4o-2024-08-06"),
        ("openrouter/deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
        ("openrouter/anthropic/claude-3.5-sonnet", "anthropic/claude-3-5-sonnet-20241022"),
        ("anthropic/claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("google/gemini-2.0-flash", "models/gemini-2.0-flash-001"),
        ("google/gemini-2.5-flash", "gemini-2.5-flash-preview-04-17"),
        ("mistral/mistral-large-latest", "mistral-large-2411"),
        ("ollama/llama3", "llama3:latest"),
        ("together/Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b-instruct"),
    ],
)
def test_a_dated_or_shortened_name_is_the_same_model(asked: str, reported: str) -> None:
    assert same_model(asked, reported)


@each_row(
    ("asked", "reported"),
    [
        ("openai/gpt-4o", "gpt-4o-mini"),
        ("openai/gpt-4o", "gpt-4o-mini-2024-07-18"),
        ("openai/gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
        ("openai/gpt-4", "gpt-4-32k"),
        ("openai/gpt-4", "gpt-4-1"),
        ("ollama/llama3:8b", "llama3:70b"),
        ("openrouter/openai/gpt-4o", "anthropic/claude-3-5-sonnet"),
        ("together/Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct-Turbo"),
    ],
)
def test_a_name_with_another_size_version_or_vendor_is_another_model(asked: str, reported: str) -> None:
    assert not same_model(asked, reported)
