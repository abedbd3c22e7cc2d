// Package rules tests that every rule of the Runtime SDK, of lifecycle hooks (LH) and of clusterctl (CT) is covered by a test, or says why not: rules.tsv lists the rules, reasons.tsv the reasons. A
// test covers a rule by naming its id, as in (RX-05), in its comment or its text, or by a line of tests.tsv. The report is written to bin/reports/runtime-sdk-rules.txt, lifecycle-rules.txt and clusterctl-rules.txt.
package rules
