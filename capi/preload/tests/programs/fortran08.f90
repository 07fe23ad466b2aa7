! Fortran 2008 bindings: other symbols, optional ierror.
program fortran08
  use mpi_f08
  implicit none
  integer :: rank, ranks, left, right, provided, length, node_size, got, error
  type(MPI_Status) :: status
  type(MPI_Comm) :: node
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  double precision :: a, b
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
  if (provided > MPI_THREAD_MULTIPLE) stop 1
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  if (error /= MPI_SUCCESS) stop 2
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  call MPI_Sendrecv(rank, 1, MPI_INTEGER, right, 3, got, 1, MPI_INTEGER, left, 3, MPI_COMM_WORLD, status)
  if (got /= left .or. status%MPI_SOURCE /= left) stop 3
  call MPI_Get_processor_name(name, length)
  if (name(1:length) /= 'simulated' // char(48 + rank / 2)) stop 4
  call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
  call MPI_Comm_size(node, node_size)
  if (node_size /= min(2, ranks - rank / 2 * 2)) stop 5
  a = MPI_Wtime()
  call sleep(100)
  b = MPI_Wtime()
  if (b - a < 100 .or. b - a > 100.001) stop 7
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Finalize()
  if (rank == 0) print '(a)', 'fortran08'
end program
