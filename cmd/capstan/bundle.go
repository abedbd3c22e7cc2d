package main

import (
	"runtime"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/local/nodebundle"
)

func (a *app) bundleCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bundle", Aliases: []string{"bundles"},
		Short: "Build, import and list bundles, from which owned hosts become nodes",
		Long: `A bundle is an archive with the programs and images that make a computer a node of one Kubernetes version, so
that a cluster on owned hosts starts without a registry. Hosts get bundles from the plane.

The plane need not be running.`,
		Example: `  kube/stock v1.36.3 stock                           # builds programs and images
  capstan bundle build stock -o v1.36.3.tar.gz       # makes one archive of them
  capstan bundle import v1.36.3.tar.gz               # hands it to the plane`,
	}
	cmd.AddCommand(a.bundleBuildCommand(), a.bundleImportCommand(), a.bundleListCommand())
	return cmd
}

// bundleTable prints one line for each bundle.
func (a *app) bundleTable(all []nodebundle.Bundle) error {
	cells := [][]string{}
	for _, b := range all {
		cells = append(cells, []string{b.Kubernetes, "linux/" + b.Architecture, size(b.Size),
			age(metav1.NewTime(b.Imported))})
	}
	return a.table([]string{"KUBERNETES", "PLATFORM", "SIZE", "AGE"}, cells)
}

// netProgram returns the path of capstan-net for an architecture. The file is in the directory of this program.
func (a *app) netProgram(arch string) (string, error) {
	if arch == runtime.GOARCH {
		return home.Binaries(a.place().Binaries).Path(nodebundle.NetProgram)
	}
	name := nodebundle.NetProgram + "-linux-" + arch
	path, err := home.Binaries(a.place().Binaries).Path(name)
	if err != nil {
		return "", hint("build it with: GOOS=linux GOARCH="+arch+" CGO_ENABLED=0 go build -o "+name+" ./cmd/capstan-net, "+
			"and give its path with --net", "the bundle is for %s: %w", arch, err)
	}
	return path, nil
}
