// Package rules checks how hooks change from release to release. It checks rules 1, 3 and 4 of the Runtime SDK by
// comparing descriptions, and rule 2 by trying conversions.
//
// [Compare] takes two descriptions of package schema and returns what breaks extensions that work today. A [Lock]
// keeps such a description in git; checking against it in continuous integration finds a break before it is published.
// [Preflight] returns which installed extensions a planned upgrade would break. [Conversions] checks rule 2 for a
// catalog that is linked into a test.
//
// The command capstan hook lint is built on this package.
//
// Ids such as RS-06 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package rules
