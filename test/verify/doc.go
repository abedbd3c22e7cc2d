// Package verify runs capstan verify over Capstan's own release, which must be without findings, and over mutants of
// it: releases that break one rule each, which the check of that rule must find.
package verify
