// Package rights tests that nobody's rights change unseen: each role that Capstan hands out stands in testdata, as
// text.
package rights
