package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app/cmd"

	"github.com/capstan-dev/capstan/kube/metricsapi"
)

// TestWithMetricsAPI runs stand-ins for kubeadm's commands, under the same names.
func TestWithMetricsAPI(t *testing.T) {
	broken := errors.New("broken")
	for line, c := range map[string]struct {
		run, install error
		step         string
	}{
		"init":                       {step: "Install"},
		"join 192.0.2.1:6443":        {step: "Refresh"},
		"upgrade apply v1.36.3":      {step: "Refresh"},
		"init --dry-run":             {},
		"init phase addon":           {},
		"upgrade node":               {},
		"join --token=a.b somewhere": {run: broken},
		"init --token=a.b":           {step: "Install", install: broken},
	} {
		t.Run(line, func(t *testing.T) {
			run := func(*cobra.Command, []string) error { return c.run }
			root := &cobra.Command{Use: "kubeadm", SilenceErrors: true, SilenceUsage: true}
			upgrade := &cobra.Command{Use: "upgrade"}
			initialize, join := &cobra.Command{Use: "init", RunE: run}, &cobra.Command{Use: "join", RunE: run}
			phase := &cobra.Command{Use: "phase", RunE: run}
			apply, node := &cobra.Command{Use: "apply", RunE: run}, &cobra.Command{Use: "node", RunE: run}
			for _, cmd := range []*cobra.Command{initialize, join, apply} {
				cmd.Flags().Bool("dry-run", false, "")
				cmd.Flags().String("token", "", "")
			}
			root.AddCommand(initialize, join, upgrade)
			initialize.AddCommand(phase)
			upgrade.AddCommand(apply, node)

			var took string
			var warned strings.Builder
			withMetricsAPI(root, &warned, func(_ context.Context, step installStep) error {
				took = nameOf(step)
				return c.install
			})
			root.SetArgs(strings.Fields(line))
			if err := root.Execute(); !errors.Is(err, c.run) {
				t.Errorf("the command ended with %v, want %v", err, c.run)
			}
			if took != c.step {
				t.Errorf("executed the step %q, want %q", took, c.step)
			}
			if warned := strings.Contains(warned.String(), "broken"); warned != (c.install != nil) {
				t.Errorf("warned: %v", warned)
			}
		})
	}
}

// nameOf returns the name of a method.
func nameOf(step installStep) string {
	name := runtime.FuncForPC(reflect.ValueOf(step).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// TestKubeadmHasTheCommands looks for the commands in upstream's tree: withMetricsAPI skips one that is missing.
func TestKubeadmHasTheCommands(t *testing.T) {
	cmd := kubeadm.NewKubeadmCommand(strings.NewReader(""), io.Discard, io.Discard)
	for _, path := range [][2]string{{"init"}, {"join"}, {"upgrade", "apply"}} {
		found := subcommand(cmd, path)
		if found == nil || found.RunE == nil || found.Flags().Lookup("dry-run") == nil {
			t.Errorf("kubeadm's command %q: %v", path, found)
		}
	}
	if subcommand(cmd, [2]string{"upgrade", "nothing"}) != nil {
		t.Error("found a command that kubeadm lacks")
	}
}

// TestAWorkerInstallsNothing checks that no step is executed on a worker. Only control plane machines have the
// administrator's configuration.
func TestAWorkerInstallsNothing(t *testing.T) {
	err := installMetricsAPI(t.Context(), filepath.Join(t.TempDir(), "admin.conf"), func(*metricsapi.Installer,
		context.Context,
	) (bool, error) {
		t.Error("a step was executed")
		return false, nil
	})
	if err != nil {
		t.Error(err)
	}
}
