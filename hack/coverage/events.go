package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
)

// verdict is the result of an executed test.
type verdict string

const (
	pass verdict = "pass"
	fail verdict = "FAIL"
)

// record is what an executed test says about one rule.
type record struct {
	// id names the rule, for example IM-05 or RX-05.
	id string
	// version is the contract version. It is empty if the family is not recorded by version.
	version string
	// test is DIRECTORY.TestName/sub; DIRECTORY is relative to the root of the sources.
	test    string
	verdict verdict
}

// event is a line of "go test -json".
type event struct {
	Action, Package, Test, Key, Value string
}

// recorded matches an attribute's value.
var recorded = regexp.MustCompile(`^((?:T-)?[A-Z]+-\d\d\d?)(?: (v1beta[12]))?$`)

// longest limits a line of events. The output of a test is split into much shorter lines.
const longest = 16 << 20

// module is the path of the root module, with which the paths of all other modules begin.
const module = "github.com/capstan-dev/capstan"

// read returns what the tests of a run recorded. It ignores records of skipped tests. An attribute "rule" that does not
// name one rule is an error.
func read(events io.Reader) ([]record, error) {
	// A test's records wait for its verdict.
	type test struct{ pkg, name string }
	open := map[test][]record{}
	var all []record
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading a line of go test -json: %w: %.80s", err, lines.Text())
		}
		key := test{e.Package, e.Test}
		switch e.Action {
		case "attr":
			if e.Key != "rule" {
				continue
			}
			m := recorded.FindStringSubmatch(e.Value)
			if m == nil {
				return nil, fmt.Errorf("%s in %s records %q: want one rule, with its contract version if any",
					e.Test, e.Package, e.Value)
			}
			dir := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/")
			open[key] = append(open[key], record{id: m[1], version: m[2], test: path.Clean(dir) + "." + e.Test})
		case "pass", "fail":
			for _, r := range open[key] {
				r.verdict = pass
				if e.Action == "fail" {
					r.verdict = fail
				}
				all = append(all, r)
			}
			delete(open, key)
		case "skip":
			delete(open, key)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the output of go test -json: %w", err)
	}
	// A package that crashed leaves tests without a verdict.
	for _, left := range open {
		for _, r := range left {
			r.verdict = fail
			all = append(all, r)
		}
	}
	return all, nil
}

// readFiles calls read for each file.
func readFiles(names []string) ([]record, error) {
	var all []record
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		records, err := read(file)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, records...)
	}
	return all, nil
}
