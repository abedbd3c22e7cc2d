package describe

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// TestFind: the error for an unknown name lists the names that exist.
func TestFind(t *testing.T) {
	green := blueCluster("")
	green.Name = "green"
	elsewhere := blueCluster("")
	elsewhere.Namespace = "other"
	c := world(t, nil, blueCluster(""), green, elsewhere)
	if found, err := Find(t.Context(), c, blue); err != nil || found.Name != "blue" {
		t.Errorf("got %v, %v", found, err)
	}
	_, err := Find(t.Context(), c, client.ObjectKey{Namespace: "team", Name: "bleu"})
	if err == nil || !strings.Contains(err.Error(), `no cluster "bleu" in namespace team`) ||
		hint.Of(err) != "clusters that exist: blue, green" {
		t.Errorf("got %v with hint %q", err, hint.Of(err))
	}
	_, err = Find(t.Context(), c, client.ObjectKey{Namespace: "empty", Name: "bleu"})
	if err == nil || !strings.Contains(err.Error(), "and no other") ||
		hint.Of(err) != "run: capstan cluster create bleu" {
		t.Errorf("got %v with hint %q", err, hint.Of(err))
	}
	broken := world(t, func(client.Client, int) error { return errServer })
	if _, err := Find(t.Context(), broken, blue); !errors.Is(err, errServer) {
		t.Errorf("got %v", err)
	}
}
