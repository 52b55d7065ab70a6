//! What `densite sql` needs: statements out of text, results into text.

pub(crate) mod format;
pub(crate) mod split;
