package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// planePhases reports how long each phase of the plane's last start took.
func (b *bench) planePhases() string {
	var state struct {
		Phases []struct {
			Name     string
			Start    int64 `json:"startMilliseconds"`
			Duration int64 `json:"durationMilliseconds"`
		}
	}
	data, err := os.ReadFile(filepath.Join(b.home, "plane", "ready.json"))
	if err != nil || json.Unmarshal(data, &state) != nil {
		return ""
	}
	var parts []string
	for _, p := range state.Phases {
		parts = append(parts, fmt.Sprintf("%s %.1f", p.Name, float64(p.Duration)/1000))
	}
	return strings.Join(parts, ", ")
}

type object struct {
	Metadata struct {
		Name              string
		CreationTimestamp time.Time
		Labels            map[string]string
	}
	Spec struct {
		Claim *struct{ Cluster, Machine string }
	}
	Status struct {
		Conditions []struct {
			Type, Status       string
			LastTransitionTime time.Time
		}
		Agent *struct {
			Bootstrap *struct{ StartTime, CompletionTime time.Time }
		}
	}
}

// since returns the seconds from start to the time when a condition became true.
func (o object) since(start time.Time, condition string) string {
	for _, c := range o.Status.Conditions {
		if c.Type == condition && c.Status == "True" {
			return fmt.Sprintf("%.0f", c.LastTransitionTime.Sub(start).Seconds())
		}
	}
	return "?"
}

func (b *bench) list(ctx context.Context, kind string) []object {
	out, err := b.output(ctx, "kubectl", "get", kind, "-o", "json")
	var list struct{ Items []object }
	if err != nil || json.Unmarshal(out, &list) != nil {
		return nil
	}
	return list.Items
}

// created returns when a Cluster was created.
func (b *bench) created(ctx context.Context, name string) (start time.Time) {
	for _, c := range b.list(ctx, "clusters") {
		if c.Metadata.Name == name {
			start = c.Metadata.CreationTimestamp
		}
	}
	return start
}

// clusterPhases reports when each machine of a cluster reached each step, in seconds after the Cluster was created. The
// API stores whole seconds.
func (b *bench) clusterPhases(name string) (lines []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := b.created(ctx, name)
	bootstrap := map[string]string{}
	for _, h := range b.list(ctx, "capstanhosts") {
		if c := h.Spec.Claim; c != nil && h.Status.Agent != nil && h.Status.Agent.Bootstrap != nil {
			r := h.Status.Agent.Bootstrap
			bootstrap[c.Machine] = fmt.Sprintf("kubeadm %.0f to %.0f", r.StartTime.Sub(start).Seconds(),
				r.CompletionTime.Sub(start).Seconds())
		}
	}
	for _, m := range b.list(ctx, "machines") {
		if m.Metadata.Labels["cluster.x-k8s.io/cluster-name"] != name {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: made %.0f, %s, Node Ready %s", strings.TrimPrefix(m.Metadata.Name, name+"-"),
			m.Metadata.CreationTimestamp.Sub(start).Seconds(), bootstrap[m.Metadata.Name], m.since(start, "NodeReady")))
	}
	slices.Sort(lines)
	return lines
}
