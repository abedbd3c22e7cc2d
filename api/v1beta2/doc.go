// Package v1beta2 has the API types of Capstan for contract v1beta2 of Cluster API.
//
// A CapstanCluster is the infrastructure of one Cluster (InfraCluster, rules IC-..), a CapstanMachine the
// infrastructure of one Machine (InfraMachine, rules IM-..), each with a template (ICT-.., IMT-..). A CapstanHost is
// one Linux computer of the inventory; a CapstanMachine claims exactly one.
//
// v1beta2 is the storage version and the hub of conversions. The contract that a version serves stands in a label of
// the CRD (IM-35): one API version never stands under two labels.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.capstan.dev
package v1beta2
