! Fortran with `use mpi`: arguments by address and on the stack, strings with hidden lengths.
program fortran
  use mpi
  implicit none
  integer :: rank, ranks, error, left, right, provided, length, node, node_size, got
  integer :: status(MPI_STATUS_SIZE)
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  character(len=4) :: key
  character(len=16) :: value
  integer :: info
  logical :: flag
  double precision :: a, b
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, error)
  if (provided > MPI_THREAD_MULTIPLE) stop 1
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  call MPI_Sendrecv(rank, 1, MPI_INTEGER, right, 3, got, 1, MPI_INTEGER, left, 3, MPI_COMM_WORLD, status, error)
  if (got /= left .or. error /= MPI_SUCCESS .or. status(MPI_SOURCE) /= left) stop 2
  call MPI_Sendrecv(rank, 1, MPI_INTEGER, right, 4, got, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, error)
  if (got /= left) stop 3
  call MPI_Get_processor_name(name, length, error)
  if (name(1:length) /= 'simulated' // char(48 + rank / 2) .or. name(length+1:) /= ' ') stop 4
  call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node, error)
  call MPI_Comm_size(node, node_size, error)
  if (node_size /= min(2, ranks - rank / 2 * 2)) stop 5
  call MPI_Info_create(info, error)
  key = 'k1'
  call MPI_Info_set(info, key, 'something', error)
  call MPI_Info_get(info, key, 16, value, flag, error)
  if (.not. flag .or. value /= 'something') stop 6
  call MPI_Info_free(info, error)
  a = MPI_Wtime()
  call sleep(100)
  b = MPI_Wtime()
  if (b - a < 100 .or. b - a > 100.001) stop 7
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
  if (rank == 0) print '(a)', 'fortran'
end program
