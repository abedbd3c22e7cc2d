package unblock

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestCounts(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		hook       string
		until      time.Duration
		generation int64
		want       string // part of the reason why it is not valid; empty: it is valid
	}{
		"a valid permission": {"BeforeClusterUpgrade", time.Minute, 3, ""},
		"another hook": {"BeforeClusterDelete", time.Minute, 3,
			"it is for hook BeforeClusterUpgrade"},
		"the permission expires now":                {"BeforeClusterUpgrade", 0, 3, "expired"},
		"the permission expired long ago":           {"BeforeClusterUpgrade", -time.Hour, 3, "expired"},
		"the permission would be valid for days":    {"BeforeClusterUpgrade", 48 * time.Hour, 3, "longer than 1h"},
		"the spec was changed, for another upgrade": {"BeforeClusterUpgrade", time.Minute, 4, "changed since"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Generation: c.generation}}
			order := Order{Hook: "BeforeClusterUpgrade", By: "alice", Reason: "r", Until: now.Add(c.until), Generation: 3}
			if got := order.counts(cluster, c.hook, now); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"valid":     {`{"hook":"BeforeClusterUpgrade","by":"alice","reason":"r","until":"2026-01-02T03:04:05Z"}`, ""},
		"no JSON":   {"true", "cannot unmarshal"},
		"empty":     {"", "unexpected end"},
		"no hook":   {`{"by":"alice","reason":"r","until":"2026-01-02T03:04:05Z"}`, "names no hook"},
		"no author": {`{"hook":"BeforeClusterUpgrade","reason":"r","until":"2026-01-02T03:04:05Z"}`, "who grants it"},
		"no reason": {`{"hook":"BeforeClusterUpgrade","by":"alice","until":"2026-01-02T03:04:05Z"}`, "who grants it"},
		"a long reason": {
			`{"hook":"BeforeClusterUpgrade","by":"alice","reason":"` + strings.Repeat("x", 501) +
				`","until":"2026-01-02T03:04:05Z"}`, "500 bytes",
		},
		"a permission without an end": {`{"hook":"BeforeClusterUpgrade","by":"alice","reason":"r"}`, "until when"},
	} {
		t.Run(name, func(t *testing.T) {
			order, err := Read(&clusterv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Annotation: c.text}},
			})
			if c.want == "" && (err != nil || order == nil) ||
				c.want != "" && (err == nil || order != nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %+v, %v, want %q", order, err, c.want)
			}
		})
	}
	if order, err := Read(&clusterv1.Cluster{}); order != nil || err != nil {
		t.Errorf("without an annotation: %+v, %v", order, err)
	}
}
