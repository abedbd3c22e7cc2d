package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/plane/providers"
)

// binaryFlag adds the flag for providers that run as processes of the plane.
func binaryFlag(cmd *cobra.Command, given *[]string, named func() (clusterctl.Request, error)) {
	cmd.Flags().StringArrayVar(given, "provider-binary", nil, "NAME=PATH: run this program as a process of the plane instead of the provider's Pods; it has your rights on this machine")
	err := cmd.RegisterFlagCompletionFunc("provider-binary", func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		request, err := named()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return completeBinary(request, begun)
	})
	if err != nil {
		panic(err) // the flag is there: it was added above
	}
}

// completeBinary proposes the names of the providers of a request, then paths.
func completeBinary(request clusterctl.Request, begun string) ([]string, cobra.ShellCompDirective) {
	var all []string
	name, path, ok := strings.Cut(begun, "=")
	if !ok {
		for _, refs := range request {
			for _, ref := range refs {
				provider, _, _ := strings.Cut(ref, ":")
				all = append(all, provider+"=")
			}
		}
		slices.Sort(all)
		return slices.Compact(all), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	found, err := filepath.Glob(path + "*")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for _, file := range found {
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			file += "/"
		}
		all = append(all, name+"="+file)
	}
	return all, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// useBinaries reads the programs that were given, before anything is asked.
func (t *target) useBinaries(given []string, request clusterctl.Request) (err error) {
	if len(given) == 0 {
		return nil
	}
	if t.kubeconfig != "" {
		return hint("leave out --provider-binary", "with --kubeconfig the management cluster runs the provider's Pods: a program on this machine is of no use there")
	}
	if t.binaries, err = clusterctl.ParseBinaries(given, request); err != nil {
		return hint("for example: --infrastructure docker --provider-binary docker=/opt/capd", "%w", err)
	}
	return nil
}

// binariesWait bounds how long a command waits for another one that installs programs: it may wait for its provider.
const binariesWait = 10 * time.Minute

// allowBinaries lets the plane run the programs that were given, and says what that means. Until done is called, no other command installs any: they would choose the same ports.
func (a *app) allowBinaries(ctx context.Context, t *target) (done func(), err error) {
	if len(t.binaries) == 0 {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, binariesWait)
	defer cancel()
	unlock, err := a.lockFile(ctx, filepath.Join(a.home.Plane(), "binaries.lock"), "capstan clusterctl with --provider-binary")
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(t.binaries)) {
		if err := providers.Allow(a.home.Plane(), t.binaries[name]); err != nil {
			unlock()
			return nil, err
		}
		fmt.Fprintf(a.err, "Provider %s runs as a process of the plane, %s. It is no container: it has your rights on this machine.\n", name, t.binaries[name])
	}
	return unlock, nil
}

// withUpgrade adds the command that gives an installed provider another program to an error about one.
func withUpgrade(err error) error {
	var installed *clusterctl.InstalledError
	if !errors.As(err, &installed) {
		return err
	}
	p := installed.Provider
	for _, f := range providerFlags {
		if f.kind == p.Type {
			return hint(fmt.Sprintf("capstan clusterctl upgrade apply --%s %s:%s --provider-binary %s", f.name, p.Name, installed.Version, clusterctl.Quote(p.Label()+"="+installed.Binary)), "%w", err)
		}
	}
	return err
}
