// Package rules checks how hooks change from release to release: rules 1, 3 and 4 of the Runtime SDK by comparing
// descriptions, rule 2 by trying conversions.
//
// [Compare] takes two descriptions of package schema and says what breaks extensions that work today. A [Lock] keeps
// such a description in git: a check against it in continuous integration finds a break before it is published.
// [Preflight] says which installed extensions a planned upgrade would break. [Conversions] is rule 2 for a catalog that
// is linked into a test.
//
// The command capstan hook lint is built from this.
package rules
