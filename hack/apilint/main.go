// Command apilint checks the API types with the Kubernetes API linter (kube-api-linter), configured by config.yaml.
//
//	go run . PACKAGES...
//
// It is a module of its own, because nothing else needs the linter.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"regexp"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"
	"sigs.k8s.io/kube-api-linter/pkg/config"
	"sigs.k8s.io/kube-api-linter/pkg/plugin/base"
	_ "sigs.k8s.io/kube-api-linter/pkg/registration"
	"sigs.k8s.io/yaml"
)

//go:embed config.yaml
var file []byte

// settings are the settings of the linter, and the exceptions.
type settings struct {
	config.GolangCIConfig `json:",inline"`
	// Except are findings that are accepted.
	Except []struct {
		// Match is a regular expression on the text of the finding.
		Match string `json:"match"`
		// Because gives the reason.
		Because string `json:"because"`
		// Package limits the exception to the package of this name. Empty: all.
		Package string `json:"package,omitempty"`
	} `json:"except"`
}

func main() {
	analyzers, err := configure()
	if err != nil {
		fmt.Fprintln(os.Stderr, "apilint: reading the configuration:", err)
		os.Exit(2)
	}
	multichecker.Main(analyzers...)
}

// configure returns the analyzers, which don't report the exceptions.
func configure() ([]*analysis.Analyzer, error) {
	var s settings
	if err := yaml.UnmarshalStrict(file, &s); err != nil {
		return nil, err
	}
	type exception struct {
		*regexp.Regexp
		in string
	}
	var accepted []exception
	for _, e := range s.Except {
		match, err := regexp.Compile(e.Match)
		if err != nil || e.Because == "" {
			return nil, fmt.Errorf("exception %q needs a reason and a good expression: %w", e.Match, err)
		}
		accepted = append(accepted, exception{match, e.Package})
	}
	plugin, err := base.New(s.GolangCIConfig)
	if err != nil {
		return nil, err
	}
	analyzers, err := plugin.BuildAnalyzers()
	if err != nil {
		return nil, err
	}
	for _, a := range analyzers {
		run := a.Run
		a.Run = func(pass *analysis.Pass) (any, error) {
			report := pass.Report
			pass.Report = func(d analysis.Diagnostic) {
				for _, match := range accepted {
					if (match.in == "" || match.in == pass.Pkg.Name()) && match.MatchString(d.Message) {
						return
					}
				}
				report(d)
			}
			return run(pass)
		}
	}
	return analyzers, nil
}
