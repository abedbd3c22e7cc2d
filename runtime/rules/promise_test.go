package rules_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/rules"
	"github.com/capstan-dev/capstan/runtime/schema"
)

// The release of Cluster API that we are built with breaks none of the extensions that worked with the previous one.
// If this fails after an upgrade of the module, tell users what breaks, and accept the change with:
//
//	capstan hook lint sigs.k8s.io/cluster-api/api@VERSION runtime/hooks/v1alpha1 --lock runtime/rules/testdata/clusterapi.lock.json --update
func TestClusterAPIKeepsItsPromises(t *testing.T) {
	const module = "sigs.k8s.io/cluster-api/api"
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := ""
	for line := range strings.SplitSeq(string(mod), "\n") {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == module {
			version = fields[1]
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	m, err := schema.OpenModule(ctx, module+"@"+version)
	if err != nil {
		t.Fatal(err)
	}
	source := &schema.Source{Locate: m.Locate}
	now, err := source.Read(ctx, module+"/runtime/hooks/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := rules.ReadLock("testdata/clusterapi.lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range rules.Compare(lock.Document, now,
		rules.Releases{Now: hook.Release(strings.Join(strings.SplitN(version, ".", 3)[:2], "."))}) {
		t.Errorf("since %s: %s", lock.Release, finding)
	}
}
