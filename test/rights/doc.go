// Package rights tests that nobody's rights change unnoticed: testdata has each role that Capstan grants, as text.
package rights
