// Coverage reports which rules of the contracts are asserted by executed tests.
//
//	go run ./hack/coverage -out bin/reports/rules.tsv bin/reports/unit.json bin/reports/heavy.json
//
// A test records a rule at the line that asserts it: t.Attr("rule", "RX-05"); the families IM, IMT, IC and ICT name the
// contract version, too: t.Attr("rule", "IM-05 v1beta2"). The files are output of "go test -json". The report has a
// line for each rule of package contract: the worst verdict of the tests that recorded it, or the reason why none did,
// from test/rules/reasons.yaml. Skipped tests don't count.
//
// Coverage fails in each of these cases: a rule has neither record nor reason; a rule has both; a test that recorded a
// rule failed; a record or a reason names something that does not exist.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

func command(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("coverage", flag.ContinueOnError)
	flags.SetOutput(errs)
	root := flags.String("root", ".", "directory of the sources")
	to := flags.String("out", "bin/reports/rules.tsv", "where the report is written")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(errs, "coverage: name the files that go test -json wrote")
		return 2
	}
	problems, err := cover(*root, *to, flags.Args(), out)
	if err != nil {
		fmt.Fprintln(errs, "coverage:", err)
		return 1
	}
	for _, p := range problems {
		fmt.Fprintln(errs, "coverage:", p)
	}
	if len(problems) > 0 {
		fmt.Fprintf(errs, "coverage: %d problems. How tests record rules: CONTRIBUTING.md\n", len(problems))
		return 1
	}
	return 0
}

// cover writes the report and returns the problems.
func cover(root, to string, files []string, out io.Writer) ([]string, error) {
	records, err := readFiles(files)
	if err != nil {
		return nil, err
	}
	reasons, err := readReasons(filepath.Join(root, "test", "rules", "reasons.yaml"))
	if err != nil {
		return nil, err
	}
	sites, problems, err := scan(root)
	if err != nil {
		return nil, err
	}
	faults, err := readFaults(
		filepath.Join(root, "test", "faults", "results.tsv"), filepath.Join(filepath.Dir(to), "faults.tsv"))
	if err != nil {
		return nil, err
	}
	results, more := judge(rows(), records, reasons)
	problems = append(problems, more...)
	for _, r := range results {
		if r.state == failed {
			problems = append(problems, fmt.Sprintf("a test of %s failed: %s", r.name(), strings.Join(r.tests, " ")))
		}
	}
	var text bytes.Buffer
	if err := write(&text, here(root, time.Now()), results, sites, faults); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(to, text.Bytes(), 0o644); err != nil {
		return nil, err
	}
	return problems, summary(out, results)
}

// readReasons reads the reasons why no test asserts a rule. A key is the id, followed by the contract version if the
// reason applies only to that version.
func readReasons(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	if err := yaml.UnmarshalStrict(data, &reasons); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for id, why := range reasons {
		if strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("%s: %s has no reason", path, id)
		}
	}
	return reasons, nil
}

// readFaults reads the results of planted faults (hack/faults) for each rule: the verdict and the commit. Later reports
// override earlier ones. Within one report, a fault that was not found overrides others. Missing reports are ignored.
func readFaults(paths ...string) (map[string]string, error) {
	all := map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		verdicts := map[string]string{}
		for line := range strings.Lines(string(data)) {
			f := strings.Split(line, "\t")
			if len(f) < 3 || f[0] == "rule" || verdicts[f[0]] != "" && !strings.HasPrefix(verdicts[f[0]], "found") {
				continue
			}
			verdicts[f[0]] = strings.TrimSpace(f[1] + " " + f[2])
		}
		maps.Copy(all, verdicts)
	}
	return all, nil
}
