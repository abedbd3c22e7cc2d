package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// reportRow is a line of the report.
type reportRow struct{ rule, verdict, commit, file, test, detail string }

const heading = "rule\tverdict\tcommit\tfile\ttest\tdetail\n"

// readReport reads the report of runs before. Without one it is empty.
func readReport(path string) ([]reportRow, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var rows []reportRow
	for line := range strings.Lines(strings.TrimPrefix(string(data), heading)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 6 {
			rows = append(rows, reportRow{f[0], f[1], f[2], f[3], f[4], f[5]})
		}
	}
	return rows, nil
}

// writeReport writes the report, sorted by rule.
func writeReport(path string, rows []reportRow) error {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b reportRow) int { return strings.Compare(a.rule, b.rule) })
	var text strings.Builder
	text.WriteString(heading)
	for _, r := range rows {
		detail := strings.Join(strings.Fields(r.detail), " ")
		text.WriteString(strings.Join([]string{r.rule, r.verdict, r.commit, r.file, r.test, detail}, "\t") + "\n")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
