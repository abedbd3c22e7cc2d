package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/contract"
)

// fault is one line of the table: a change of our code that breaks a rule, and the test that must notice it, or else
// the reason why there is no such change.
type fault struct {
	// Rule is the id of the rule that the fault breaks.
	Rule string `json:"rule"`
	// Why says why no fault can be planted. The other fields are empty then.
	Why string `json:"why,omitempty"`
	// File is the file to change, relative to the root of the sources.
	File string `json:"file,omitempty"`
	// Old is the text to replace, which occurs once in the file.
	Old string `json:"old,omitempty"`
	// New is the text with the fault.
	New string `json:"new,omitempty"`
	// Test is the test that must fail, in the form ./DIRECTORY.TestName.
	Test string `json:"test,omitempty"`
	// Build lists the programs below cmd/ that the test runs.
	Build []string `json:"build,omitempty"`
}

var testName = regexp.MustCompile(`^(\./[a-z0-9/_-]+)\.((?:Test|Fuzz|Example)\w*)$`)

// split returns the package and the name of the fault's test.
func (f fault) split() (pkg, name string) {
	m := testName.FindStringSubmatch(f.Test)
	if m == nil {
		return "", ""
	}
	return m[1], m[2]
}

// read reads all tables in a directory, in the order of their names.
func read(dir string) ([]fault, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []fault
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var some []fault
		if err := yaml.UnmarshalStrict(data, &some); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// check returns what is wrong with a fault, given the root of the sources.
func (f fault) check(root string) error {
	rule, ok := contract.Find(f.Rule)
	if !ok {
		return fmt.Errorf("%s: there is no such rule", f.Rule)
	}
	if f.Why != "" {
		if f.File+f.Old+f.New+f.Test != "" || len(f.Build) > 0 {
			return fmt.Errorf("%s has both a fault and a reason why no fault can be planted", f.Rule)
		}
		return nil
	}
	var errs []error
	if pkg, name := f.split(); name == "" {
		errs = append(errs, fmt.Errorf("the test %q is not ./DIRECTORY.TestName", f.Test))
	} else if !hasTest(filepath.Join(root, pkg), name) {
		errs = append(errs, fmt.Errorf("there is no test %s", f.Test))
	}
	if f.Old == f.New {
		errs = append(errs, errors.New("the fault changes nothing"))
	}
	if _, err := f.apply(root); err != nil {
		errs = append(errs, err)
	}
	for _, program := range f.Build {
		if _, err := os.Stat(filepath.Join(root, "cmd", program)); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s (%s): %w", f.Rule, rule.Level, err)
	}
	return nil
}

// apply returns the text of the file with the fault.
func (f fault) apply(root string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(root, f.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(data), f.Old); f.Old == "" || n != 1 {
		return nil, fmt.Errorf("%s has the text to replace %d times, want once: %q", f.File, n, f.Old)
	}
	return []byte(strings.Replace(string(data), f.Old, f.New, 1)), nil
}

// hasTest reports whether a directory has a test of that name.
func hasTest(dir, name string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(data), "\nfunc "+name+"(")
	})
}
