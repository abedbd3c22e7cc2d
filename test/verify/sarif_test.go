package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/xeipuuv/gojsonschema"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
	"github.com/capstan-dev/capstan/contract/report"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// A SARIF report matches the schema of SARIF 2.1.0, even if the report contains a fix, a finding about a whole file, a
// failure and a file name with a space. The schema comes from the Go module that makes the report.
func TestSARIFKeepsItsSchema(t *testing.T) {
	files := ours(t)
	files["metadata.yaml"] = strings.Replace(files["metadata.yaml"], "minor: 1", "minor: 7", 1)
	files[components] = strings.Replace(files[components], "name: manager", "name: controller", 1)
	r := judge(t, write(t, "with a blank/"+version, files))
	fix := strings.Replace(files["metadata.yaml"], "v1alpha3", "v1alpha4", 1)
	r.Findings = append(r.Findings, judge(t, write(t, directory, map[string]string{
		"metadata.yaml": fix, components: files[components],
	})).Findings...)
	r.Failures = []check.Failure{{Check: "one", Release: "a", Message: "it panicked"}}
	var out bytes.Buffer
	if err := report.Write(&out, report.SARIF, r, checks.All()); err != nil {
		t.Fatal(err)
	}
	known, err := readSARIF(t, out.String())
	if err != nil {
		t.Fatal(err)
	}
	results := known.Runs[0].Results
	fixes, whole := 0, 0
	for _, result := range results {
		fixes += len(result.Fixes)
		if at := result.Locations[0].PhysicalLocation; at.Region == nil {
			whole++
		}
	}
	if len(results) < 3 || fixes == 0 || whole == 0 {
		t.Errorf("the report has %d results, %d fixes and %d without a line: too few", len(results), fixes, whole)
	}
	// The schema is effective: it rejects a broken report.
	broken := strings.Replace(out.String(), `"level": "error"`, `"level": "fatal"`, 1)
	if _, err := readSARIF(t, broken); err == nil {
		t.Error("the schema accepts a level that SARIF does not have")
	}
	unknown := strings.Replace(out.String(), `"ruleId"`, `"rule"`, 1)
	if _, err := readSARIF(t, unknown); err == nil {
		t.Error("the schema accepts a field that SARIF does not have")
	}
}

// readSARIF validates a report against the schema, and reads it.
func readSARIF(t *testing.T, text string) (*sarif.Report, error) {
	t.Helper()
	result, err := gojsonschema.Validate(gojsonschema.NewStringLoader(schemaOfSARIF(t)),
		gojsonschema.NewStringLoader(text))
	if err != nil {
		t.Fatal(err)
	}
	var wrong []error
	for _, problem := range result.Errors() {
		wrong = append(wrong, errors.New(problem.String()))
	}
	var known sarif.Report
	return &known, errors.Join(append(wrong, json.Unmarshal([]byte(text), &known))...)
}

// schemaOfSARIF returns the schema of SARIF 2.1.0. It reads the schema from a source file of a module, where the schema
// is the only constant.
func schemaOfSARIF(t *testing.T) string {
	t.Helper()
	dir, err := apiserver.Module("github.com/owenrumney/go-sarif/v3")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pkg", "report", "v210", "sarif", "schema.go")
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	schema := ""
	ast.Inspect(parsed, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && len(literal.Value) > len(schema) {
			schema = literal.Value
		}
		return true
	})
	schema, err = strconv.Unquote(schema)
	if err != nil || !strings.Contains(schema, "sarif-schema-2.1.0.json") {
		t.Fatalf("%s has no schema: %v", file, err)
	}
	return schema
}
