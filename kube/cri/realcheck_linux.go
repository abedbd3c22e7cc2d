package cri

import (
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// checkReal rejects the requests that the CRI requires a runtime to reject when a container is created.
func checkReal(config *runtimeapi.ContainerConfig) error {
	security := config.GetLinux().GetSecurityContext()
	if security.GetRunAsGroup() != nil && security.GetRunAsUser() == nil && security.GetRunAsUsername() == "" {
		return fmt.Errorf("the container asks for group %d without a user: set runAsUser, too",
			security.RunAsGroup.Value)
	}
	for _, m := range config.Mounts {
		private := m.Propagation == runtimeapi.MountPropagation_PROPAGATION_PRIVATE
		if m.RecursiveReadOnly && (!m.Readonly || !private) {
			return fmt.Errorf("the mount at %s requests recursiveReadOnly, so "+
				"the mount itself must be read-only and have no propagation", m.ContainerPath)
		}
	}
	return nil
}
