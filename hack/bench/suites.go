package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// suite is a Go benchmark with the figures that it reports.
type suite struct {
	dir, pkg string // where the go command runs, and the package
	bench    string // a regular expression
	times    string // for -benchtime
	figures  map[result]string
}

// result is one value that a benchmark reports.
type result struct{ name, unit string }

// suites are the Go benchmarks whose figures are in the catalog.
var suites = []suite{
	{".", "./provider/machine", "Claim", "1s", map[result]string{{"BenchmarkClaim", "ratio"}: "claim"}},
	{".", "./image/store", "Load", "3x", map[result]string{
		{"BenchmarkLoad/plain", "times-tar"}: "load", {"BenchmarkLoad/gzip", "times-tar"}: "load-gzip",
	}},
	{"kube", "./run", "Container|Memory", "50x", map[result]string{
		{"BenchmarkContainerStart/with_the_default_filter", "ms/container"}: "container",
		{"BenchmarkContainerStart/with_the_default_filter", "times-crun"}:   "container-crun",
		{"BenchmarkContainerStart/without_a_filter", "ms/container"}:        "container-bare",
		{"BenchmarkContainerStart/without_a_filter", "times-crun"}:          "container-bare-crun",
		{"BenchmarkSupervisorMemory/of_ten", "KiB/container"}:               "supervisor",
	}},
	{"kube", "./nft", "ServiceStream", "20x", map[result]string{
		{"BenchmarkServiceStream/one_host", "times-direct"}:  "stream-near",
		{"BenchmarkServiceStream/two_hosts", "times-direct"}: "stream-far",
	}},
	{"kube", "./nft", "ServiceRequest", "2000x", map[result]string{
		{"BenchmarkServiceRequest/one_host", "times-direct"}:  "request-near",
		{"BenchmarkServiceRequest/two_hosts", "times-direct"}: "request-far",
	}},
}

// optional lists figures that can't be measured on every machine, with the reason.
var optional = map[string]string{
	"container-crun":      "not compared: crun is not installed",
	"container-bare-crun": "not compared: crun is not installed",
}

// run runs the benchmark and returns its figures, for each of its levels.
func (s suite) run(ctx context.Context) (all []figure, err error) {
	fmt.Fprintf(os.Stderr, "… benchmarks %s of %s\n", s.bench, s.pkg)
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=20m", "-run=^$", "-bench="+s.bench,
		"-benchtime="+s.times, s.pkg)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if s.dir != "." {
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("benchmarks of %s: %w\n%s", s.pkg, err, out)
	}
	all = s.read(string(out))
	for _, id := range s.figures {
		has := false
		for _, f := range all {
			has = has || f.ID == id
		}
		if reason := optional[id]; !has && reason != "" {
			fmt.Fprintf(os.Stderr, "  %s: %s\n", newFigure(id, "", 0).Name, reason)
		} else if !has {
			return nil, fmt.Errorf("the benchmarks of %s did not report %q:\n%s", s.pkg, newFigure(id, "", 0).Name, out)
		}
	}
	return all, nil
}

// processors is what the go command appends to the name of a benchmark.
var processors = regexp.MustCompile(`-\d+$`)

// read returns the figures in the output of go test. Pure.
func (s suite) read(output string) (all []figure) {
	for lines := bufio.NewScanner(strings.NewReader(output)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name, level := levelOf(processors.ReplaceAllString(fields[0], ""))
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if id, ok := s.figures[result{name, fields[i+1]}]; ok && err == nil {
				all = append(all, newFigure(id, level, value))
			}
		}
	}
	return all
}

// levelOf removes the hosts' number of ids from a benchmark's name, and returns it as a level. A benchmark without that
// number runs only once, at the level of the current user. Pure except for the current user.
func levelOf(name string) (rest, level string) {
	if rest, ok := strings.CutSuffix(name, ",_one_id"); ok {
		return rest, levelOneID
	}
	rest, ok := strings.CutSuffix(name, ",_all_ids")
	switch {
	case os.Getuid() == 0:
		return rest, levelRoot
	case ok:
		return rest, levelSubordinate
	}
	return rest, levelOneID
}
