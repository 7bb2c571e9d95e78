"""Text on the CPU: cleaning, tokens, sentences, entities, dates. Nothing here knows an array layout."""
