package report

import (
	"net/url"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/contract/check"
)

// The part of SARIF 2.1.0 in use.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		ColumnKind  string            `json:"columnKind"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string      `json:"id"`
		ShortDescription sarifText   `json:"shortDescription"`
		FullDescription  sarifText   `json:"fullDescription"`
		Help             sarifText   `json:"help"`
		HelpURI          string      `json:"helpUri"`
		Configuration    sarifLevel  `json:"defaultConfiguration"`
		Properties       sarifDetail `json:"properties"`
	}
	sarifDetail struct {
		Rules []string `json:"rules"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful    bool        `json:"executionSuccessful"`
		Notifications []sarifNote `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNote struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Fixes        []sarifFix        `json:"fixes,omitempty"`
	}
	sarifFix struct {
		Description sarifText     `json:"description"`
		Changes     []sarifChange `json:"artifactChanges"`
	}
	sarifChange struct {
		Artifact     sarifArtifact      `json:"artifactLocation"`
		Replacements []sarifReplacement `json:"replacements"`
	}
	sarifReplacement struct {
		Deleted  sarifRegion `json:"deletedRegion"`
		Inserted sarifText   `json:"insertedContent"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn,omitempty"`
		// EndColumn is the column after the last character of the region.
		EndLine   int `json:"endLine,omitempty"`
		EndColumn int `json:"endColumn,omitempty"`
	}
)

func sarif(r *check.Report, checks []*check.Check) sarifLog {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: toolOf(r), InformationURI: check.Book, Rules: []sarifRule{}}},
		ColumnKind:  "unicodeCodePoints",
		Invocations: []sarifInvocation{{Successful: len(r.Failures) == 0}},
		Results:     []sarifResult{},
	}
	for _, c := range checks {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: c.ID, ShortDescription: sarifText{c.Doc}, FullDescription: sarifText{c.Why}, Help: sarifText{c.Fix},
			HelpURI: c.Link(), Configuration: sarifLevel{sarifLevelOf(c.Level)}, Properties: sarifDetail{c.Rules},
		})
	}
	for _, f := range r.Failures {
		run.Invocations[0].Notifications = append(run.Invocations[0].Notifications,
			sarifNote{"error", sarifText{f.Check + " failed over " + f.Release + ": " + f.Message}})
	}
	for _, f := range r.Findings {
		run.Results = append(run.Results, sarifResultOf(f))
	}
	return sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	}
}

func sarifResultOf(f check.Finding) sarifResult {
	result := sarifResult{
		RuleID: f.Check, Level: sarifLevelOf(f.Level), Message: sarifText{named(f) + ": " + f.Message + ". " + f.Fix},
		Locations: []sarifLocation{}, Fingerprints: map[string]string{"capstanFinding/v1": f.Key()},
	}
	if f.File != "" {
		physical := sarifPhysical{Artifact: sarifArtifact{sarifURI(f.File)}}
		if f.Line > 0 {
			physical.Region = &sarifRegion{Line: f.Line, Column: f.Column}
		}
		result.Locations = append(result.Locations, sarifLocation{physical})
	}
	if e := f.Edit; !e.IsZero() {
		old := sarifRegion{e.Line, e.Column, e.Line, e.Column + utf8.RuneCountInString(e.Old)}
		result.Fixes = []sarifFix{{sarifText{f.Fix}, []sarifChange{{
			sarifArtifact{sarifURI(e.File)}, []sarifReplacement{{old, sarifText{e.New}}},
		}}}}
	}
	return result
}

// sarifURI returns the URI of a file. A name that is already a URL stays as it is.
func sarifURI(file string) string {
	if strings.Contains(file, "://") {
		return file
	}
	return (&url.URL{Path: filepath.ToSlash(file)}).String()
}

func sarifLevelOf(level check.Level) string {
	if level == check.Must {
		return "error"
	}
	return "warning"
}
