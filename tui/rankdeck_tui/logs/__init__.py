"""What a log tile shows, apart from drawing it: lines in view, filters, searches. No widgets here."""
