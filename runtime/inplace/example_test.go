package inplace_test

import (
	"context"
	"fmt"
	"time"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/capstan-dev/capstan/runtime/inplace"
	"github.com/capstan-dev/capstan/runtime/server"
)

// written records the files on the machines. Its keys are a Machine's name followed by a path.
var written = map[string]bool{}

// Changes of files and additional accounts are made in place; any other change replaces the machine.
func Example() {
	updater := inplace.Updater{
		Takes: []inplace.Rule{
			inplace.Fields(inplace.KubeadmConfig, "files"),
			inplace.Take(inplace.KubeadmConfig, func(_ context.Context, current, desired *bootstrapv1.KubeadmConfigSpec) error {
				if len(desired.Users) >= len(current.Users) { // accounts may be added, but not removed
					current.Users = desired.Users
				}
				return nil
			}),
		},
		Update: func(_ context.Context, machine inplace.Desired) error {
			config, err := inplace.Bootstrap[bootstrapv1.KubeadmConfig](machine)
			if err != nil {
				return err
			}
			for _, file := range config.Spec.Files {
				if !written[machine.Machine.Name+file.Path] {
					written[machine.Machine.Name+file.Path] = true
					return server.Wait(5*time.Second, "writing "+file.Path)
				}
			}
			return nil
		},
	}
	_, err := server.New(server.Options{}, updater.Handlers("files")...)
	fmt.Println(err)
	// Output: <nil>
}
