"""An event logger: four servers, one Densite file, and a search index that follows it."""
