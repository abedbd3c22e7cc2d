// Package v1beta2 has the API types of Capstan for contract v1beta2 of Cluster API.
//
// A CapstanCluster is the infrastructure of one Cluster (InfraCluster, rules IC-..), a CapstanMachine the
// infrastructure of one Machine (InfraMachine, rules IM-..), each with a template (ICT-.., IMT-..). A CapstanHost is
// one Linux computer of the inventory; a CapstanMachine claims exactly one.
//
// v1beta2 is the storage version and the hub of conversions. A label of the CRD says which contract each version serves
// (IM-35). An API version never serves two contracts.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.capstan.dev
package v1beta2
