package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reportRow is a line of the report: the outcome of a fault, the commit, the day, and how long it took.
type reportRow struct {
	rule, verdict, commit, date string
	took                        time.Duration
	file, test, detail          string
}

const heading = "rule\tverdict\tcommit\tdate\tseconds\tfile\ttest\tdetail\n"

// of reports whether the row is about the fault f.
func (r reportRow) of(f fault) bool { return r.rule == f.Rule && r.file == f.File && r.test == f.Test }

// readReport reads the report of earlier runs. It is empty if there were none.
func readReport(path string) ([]reportRow, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(string(data), heading)
	if !ok {
		return nil, fmt.Errorf("%s does not have the format of this report: remove it", path)
	}
	var rows []reportRow
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 8 {
			return nil, fmt.Errorf("%s has a line with %d columns, want 8: %q", path, len(f), line)
		}
		seconds, err := strconv.Atoi(f[4])
		if err != nil {
			return nil, fmt.Errorf("%s: the seconds of %s: %w", path, f[0], err)
		}
		took := time.Duration(seconds) * time.Second
		rows = append(rows, reportRow{f[0], f[1], f[2], f[3], took, f[5], f[6], f[7]})
	}
	return rows, nil
}

// writeReport writes the report, sorted by rule.
func writeReport(path string, rows []reportRow) error {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b reportRow) int {
		return strings.Compare(a.rule+a.file, b.rule+b.file)
	})
	var text strings.Builder
	text.WriteString(heading)
	for _, r := range rows {
		detail := strings.Join(strings.Fields(r.detail), " ")
		seconds := strconv.Itoa(int(r.took.Round(time.Second) / time.Second))
		text.WriteString(strings.Join(
			[]string{r.rule, r.verdict, r.commit, r.date, seconds, r.file, r.test, detail}, "\t") + "\n")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
