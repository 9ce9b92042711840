"""The field's words as value objects; everything else meets here."""
