//! Trains a byte-level BPE tokenizer as used by GPT-2 and Qwen: every text can be encoded, and decoding
//! restores it.
use tokenizers::models::bpe::{BpeTrainer, BPE};
use tokenizers::models::TrainerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};

/// The text of a tokenizer.json. Special tokens come first.
pub fn train(lines: &[&str], vocabulary: usize, special: &[String]) -> Result<String, String> {
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(vocabulary)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(special.iter().map(|token| AddedToken::from(token.as_str(), true)).collect())
        .build();
    tokenizer
        .train(&mut TrainerWrapper::from(trainer), lines.iter())
        .map_err(|error| error.to_string())?;
    tokenizer.to_string(false).map_err(|error| error.to_string())
}
