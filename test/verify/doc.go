// Package verify runs capstan verify over Capstan's own release, which must have no findings, and over mutants of it.
// Each mutant is a release that breaks one rule, which the check of that rule must find.
package verify
