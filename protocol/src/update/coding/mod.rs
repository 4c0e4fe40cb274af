//! Codes that sections are made of.
