package inplace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Updater updates Machines in place. Takes and Update are required.
type Updater struct {
	// Takes lists what can be changed in place. Rules for the same kind add up.
	Takes []Rule
	// Update brings one machine to the desired state. It is called repeatedly until it returns nil, even after a
	// restart of the extension, so it should check the machine's state and do what is missing. While the update is in
	// progress, Update must return the result of server.Wait. Any other error is shown in the Machine's condition
	// Updating, and Update is called again. It is called only for Machines whose changes can all be made in place.
	Update func(ctx context.Context, machine Desired) error
	// KeepsAvailable means that Machines stay available during Update. Cluster API v1.15 then counts them as available
	// during the update and creates no additional Machine before it. Older releases treat each update in place as a
	// disruption. Default: Machines may become unavailable.
	KeepsAvailable bool
}

// Desired is what a Machine should become.
type Desired struct {
	// Machine without status. Its labels and annotations are the current ones.
	Machine *clusterv1.Machine
	// Settings of the ExtensionConfig.
	Settings map[string]string

	infrastructure, bootstrap []byte
}

// Infrastructure decodes the desired infrastructure machine into its Go type T.
func Infrastructure[T any](d Desired) (*T, error) {
	object := new(T)
	if err := json.Unmarshal(d.infrastructure, object); err != nil {
		return nil, fmt.Errorf("decoding the infrastructure of Machine %s as %T: %w", d.Machine.Name, *object, err)
	}
	return object, nil
}

// Bootstrap decodes the desired bootstrap configuration into its Go type T. It returns nil for a Machine without one.
func Bootstrap[T any](d Desired) (*T, error) {
	if len(d.bootstrap) == 0 || string(d.bootstrap) == "null" {
		return nil, nil
	}
	object := new(T)
	if err := json.Unmarshal(d.bootstrap, object); err != nil {
		return nil, fmt.Errorf("decoding the bootstrap configuration of Machine %s as %T: %w", d.Machine.Name, *object, err)
	}
	return object, nil
}

// Handlers returns the handlers of all three hooks, for server.New. Their names are NAME-can-machine, NAME-can-set and
// NAME-update. The options apply to all of them.
func (u Updater) Handlers(name string, options ...server.Option) []server.Handler {
	options = append(options[:len(options):len(options)], server.Broken(u.problem()))
	return []server.Handler{
		server.Handle(CanUpdateMachine, name+"-can-machine", u.canUpdateMachine, options...),
		server.Handle(CanUpdateMachineSet, name+"-can-set", u.canUpdateMachineSet, options...),
		server.Handle(hook.UpdateMachine, name+"-update", u.updateMachine, options...),
	}
}

// problem returns why the updater can't work, or nil.
func (u Updater) problem() error {
	if u.Update == nil {
		return errors.New("the updater has no function Update")
	}
	if len(u.Takes) == 0 {
		return errors.New("the updater has no rules in Takes, so all Machines would be replaced")
	}
	var errs []error
	for _, rule := range u.Takes {
		switch {
		case rule.problem != nil:
			errs = append(errs, rule.problem)
		case rule.paths == nil:
			errs = append(errs, errors.New("the updater has an empty rule: make rules with Fields or Take"))
		}
	}
	return errors.Join(errs...)
}

func (u Updater) canUpdateMachine(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest, response *MachineAnswer,
) error {
	current, desired := request.Current, request.Desired
	err := u.take(ctx, []string{"spec"},
		part{"Machine", current.Machine, desired.Machine, &response.MachinePatch},
		part{"infrastructure", current.InfrastructureMachine, desired.InfrastructureMachine,
			&response.InfrastructureMachinePatch},
		part{"bootstrap configuration", current.BootstrapConfig, desired.BootstrapConfig, &response.BootstrapConfigPatch})
	response.AffectsAvailability = u.availability(
		response.MachinePatch, response.InfrastructureMachinePatch, response.BootstrapConfigPatch)
	return err
}

func (u Updater) canUpdateMachineSet(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, response *MachineSetAnswer,
) error {
	current, desired := request.Current, request.Desired
	err := u.take(ctx, []string{"spec", "template", "spec"},
		part{"MachineSet", current.MachineSet, desired.MachineSet, &response.MachineSetPatch},
		part{"infrastructure template", current.InfrastructureMachineTemplate, desired.InfrastructureMachineTemplate,
			&response.InfrastructureMachineTemplatePatch},
		part{"bootstrap template", current.BootstrapConfigTemplate, desired.BootstrapConfigTemplate,
			&response.BootstrapConfigTemplatePatch})
	response.AffectsAvailability = u.availability(
		response.MachineSetPatch, response.InfrastructureMachineTemplatePatch, response.BootstrapConfigTemplatePatch)
	return err
}

func (u Updater) updateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest,
	_ *runtimehooksv1.UpdateMachineResponse) error {
	return u.Update(ctx, Desired{
		Machine: &request.Desired.Machine, Settings: request.Settings,
		infrastructure: request.Desired.InfrastructureMachine.Raw, bootstrap: request.Desired.BootstrapConfig.Raw,
	})
}
