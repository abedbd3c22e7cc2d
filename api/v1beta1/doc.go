// Package v1beta1 has the API types of Capstan for contract v1beta1 of Cluster API, as its documents describe them:
// status.ready, failure reason and message, a map of failure domains, Cluster API's conditions, the failure domain of a
// machine in its spec.
//
// Objects are stored as v1beta2, which is the hub; the API server converts them by webhook. The functions
// Convert..ToHub and Convert..FromHub do the work and lose nothing in either direction. Annotation [DataAnnotation] of
// the v1beta1 object keeps what only v1beta2 can represent. Field status.deprecated.v1beta1 of the v1beta2 object keeps
// what only v1beta1 can represent.
//
// CapstanHost has no v1beta1, because it is not a resource of the contract.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.capstan.dev
package v1beta1
